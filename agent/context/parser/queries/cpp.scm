(function_definition declarator: (function_declarator declarator: [(identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name)] @name)
  body: (_) @body) @definition.function
(function_definition declarator: (_ (function_declarator declarator: [(identifier) (field_identifier) (qualified_identifier)] @name))
  body: (_) @body) @definition.function
(struct_specifier name: (type_identifier) @name body: (_) @body) @definition.class
(class_specifier name: (type_identifier) @name body: (_) @body) @definition.class
(union_specifier name: (type_identifier) @name body: (_) @body) @definition.class
(enum_specifier name: (type_identifier) @name body: (_) @body) @definition.type
(type_definition declarator: (type_identifier) @name) @definition.type
(alias_declaration name: (type_identifier) @name) @definition.type
(namespace_definition name: (_) @name body: (_) @body) @definition.module
(preproc_function_def name: (identifier) @name) @definition.macro
(preproc_include path: (string_literal (string_content) @import))
(preproc_include path: (system_lib_string) @import)
(call_expression function: (identifier) @reference)
(call_expression function: (field_expression field: (field_identifier) @reference))
(call_expression function: (qualified_identifier name: (identifier) @reference))
