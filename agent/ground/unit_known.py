# SPDX-License-Identifier: Apache-2.0
"""Names that Go, Java, Rust, C, C++ and Ruby always have."""

from typing import Dict, FrozenSet

from unit_names import words

BUILTINS: Dict[str, FrozenSet[str]] = {
    "Go": words("append cap clear close complex copy delete imag len make max min new panic print println real "
                "recover any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 "
                "int64 rune string uint uint8 uint16 uint32 uint64 uintptr init"),
    "Java": words("this super"),
    "Rust": words("Some None Ok Err Box String Vec drop Fn FnMut FnOnce Self"),
    "C": words("defined sizeof alignof _Alignof typeof __typeof__ offsetof asm __asm__ _Generic _Static_assert "
               "static_assert alloca __attribute__ va_start va_end va_arg va_copy"),
    "C++": words("defined sizeof alignof typeof decltype noexcept typeid offsetof asm static_assert alloca operator "
                 "explicit static_cast dynamic_cast const_cast reinterpret_cast va_start va_end va_arg va_copy"),
    "Ruby": words(
        "Array Complex Float Hash Integer Rational String URI JSON Pathname BigDecimal abort at_exit autoload "
        "autoload? binding block_given? callcc caller caller_locations catch eval exec exit exit! fork format gem "
        "gets global_variables initialize_clone initialize_copy initialize_dup iterator? lambda load "
        "local_variables loop open p pp print printf proc putc puts raise fail rand readline readlines require "
        "require_relative select set_trace_func sleep spawn sprintf srand syscall system test throw trace_var trap "
        "untrace_var warn j jj y super yield defined? initialize respond_to_missing? method_missing private public "
        "protected attr_accessor attr_reader attr_writer attr include extend prepend define_method alias_method "
        "module_function private_constant private_class_method public_class_method new allocate superclass "
        "const_get const_set const_defined? const_missing name remove_method undef_method instance_method "
        "instance_methods class_variable_get class_variable_set class_variable_defined? class_eval module_eval "
        "class_exec module_exec ancestors inherited included extended prepended method_added refine using "
        "remove_const remove_instance_variable remove_class_variable instance_method public_instance_method "
        "method_defined? public_method_defined? private_method_defined? attached_object ruby2_keywords sh "
        "assert_raise debugger byebug"),
    "Bash": frozenset(),
}
OF_ALL: Dict[str, FrozenSet[str]] = {  # members of every value
    "Go": frozenset(),
    "Java": words("equals hashCode toString getClass notify notifyAll wait clone finalize class length this super"),
    "Rust": words("default borrow borrow_mut to_owned into try_into from try_from type_id to_string clone_into "
                  "as_ref as_mut into_iter eq ne cmp partial_cmp lt le gt ge max min clamp hash fmt clone await "
                  "is_some is_none unwrap iter len by_ref provide clone_from deref deref_mut as_any fuse"),
    "C": frozenset(), "C++": frozenset(), "Bash": frozenset(),
    "Ruby": words(
        "! != !~ <=> == === class clone define_singleton_method display dup enum_for eql? equal? extend freeze "
        "frozen? hash inspect instance_eval instance_exec instance_of? instance_variable_defined? "
        "instance_variable_get instance_variable_set instance_variables is_a? itself kind_of? method methods nil? "
        "object_id private_methods protected_methods public_method public_methods public_send "
        "remove_instance_variable respond_to? send singleton_class singleton_method singleton_methods tap then "
        "yield_self taint tainted? to_enum to_s trust untaint untrust untrusted? __id__ __method__ __dir__ "
        "__callee__ __send__ instance_variable_names new allocate superclass name to_proc ancestors const_get "
        "const_set constants class_eval module_eval class_exec instance_method instance_methods method_defined? "
        "define_method attr_accessor include? included_modules <= < >= > members class_variable_get "
        "class_variable_set class_variables module_function public_instance_methods autoload private_constant "
        "public_instance_method remove_method undef_method private_instance_methods const_defined? "
        "private_method_defined? public_method_defined? remove_const to_json to_yaml pretty_print pretty_inspect "
        "pretty_print_inspect include alias_method subclasses private_class_method public_class_method"),
}
DERIVES = words("Clone Copy Debug Default PartialEq Eq PartialOrd Ord Hash")
BASES: Dict[str, Dict[str, FrozenSet[str]]] = {  # members that types outside the project give to their subtypes
    language: {row.split()[0]: words(" ".join(row.split()[1:])) for row in text.split(",")} for language, text in {
        "Java": "Object, Runnable run, Serializable, Cloneable, Comparable compareTo, AutoCloseable close, "
                "Closeable close, Callable call, RandomAccess",
        "Go": "error Error, any",
        "Rust": "Clone clone clone_from, Copy, Debug fmt, Default default, Display fmt to_string, PartialEq eq ne, Eq, "
                "PartialOrd partial_cmp lt le gt ge, Ord cmp max min clamp, Hash hash, Drop drop, From from, Into into,"
                "TryFrom try_from Error, FromStr from_str Err, AsRef as_ref, AsMut as_mut, Send, Sync, Sized, Unpin, "
                "Error source description cause, Add add Output, Sub sub Output, Mul mul Output, Div div Output, "
                "Neg neg Output, Not not Output, Index index Output, IndexMut index_mut, AddAssign add_assign, "
                "SubAssign sub_assign, IntoIterator into_iter Item IntoIter, Borrow borrow, ToString to_string",
        "Ruby": "Object, BasicObject, Comparable between? clamp == < > <= >=, " + ", ".join(
            f"{name}Error message backtrace full_message cause exception set_backtrace detailed_message "
            "backtrace_locations receiver key signal status exit_value" for name in (
                "Standard", "Runtime", "Argument", "Type", "Name", "IO"))}.items()}
# Constants of Ruby and its library: a project's constant of the same name may extend one.
CORE = words(
    "Array BasicObject Binding Class Comparable Complex Data Date DateTime Dir Encoding Enumerable Enumerator Errno "
    "Exception FalseClass Fiber File FileTest FileUtils Float GC Gem Hash IO Integer Interrupt JSON Kernel Logger "
    "Marshal MatchData Math Method Module Mutex Net NilClass Numeric Object ObjectSpace OpenSSL OpenStruct "
    "OptionParser Pathname Proc Process Queue Random Range Rational Regexp RbConfig RubyVM SecureRandom Set "
    "Shellwords Signal Singleton Socket StandardError String StringIO StringScanner Struct Symbol Tempfile Thread "
    "Time Timeout TracePoint TrueClass URI UnboundMethod YAML Zlib CGI CSV ERB Etc Digest Benchmark BigDecimal "
    "Forwardable Monitor Observable Open3 PP Pstore RDoc Racc Rake Readline Reline Resolv Rinda Ripper Tsort Psych "
    "Bundler Minitest Test RSpec Error")
EXTENDED = words(  # methods that widely used gems add to every object of Ruby
    "acts_like? as_json blank? present? presence deep_dup duplicable? html_safe? in? instance_values "
    "instance_variable_names presence_in require_dependency to_param to_query try try! unescape with_options should "
    "should_not must_equal wont_equal stub stubs expects must_be must_be_nil pry pretty_inspect to_yaml to_json "
    "psych_to_yaml unloadable to_xml with suppress_warnings delay")
KEEPS_SELF = words(  # methods whose blocks run with the same self
    "each each_with_index each_pair each_key each_value each_slice each_cons each_char each_line each_byte "
    "each_entry each_with_object each_index map map! flat_map collect collect! select select! filter filter! "
    "filter_map reject reject! find find_all find_index detect inject reduce sum times upto downto step loop tap "
    "then yield_self sort sort_by sort_by! min_by max_by group_by partition all? any? none? one? count zip cycle "
    "delete_if keep_if take_while drop_while transform_values transform_keys transform_values! to_h fetch "
    "reverse_each sub gsub sub! gsub! scan synchronize open chunk_while slice_when catch index uniq fill new")
