(function_declaration name: (identifier) @name body: (_) @body) @definition.function
(function_signature name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @definition.function
(class_declaration name: (type_identifier) @name body: (_) @body) @definition.class
(abstract_class_declaration name: (type_identifier) @name body: (_) @body) @definition.class
(method_definition name: (_) @name body: (_) @body) @definition.function
(abstract_method_signature name: (_) @name) @definition.function
(interface_declaration name: (type_identifier) @name body: (_) @body) @definition.interface
(type_alias_declaration name: (type_identifier) @name) @definition.type
(enum_declaration name: (identifier) @name body: (_) @body) @definition.type
(variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @definition.function
(program (lexical_declaration (variable_declarator name: (identifier) @name
  value: [(number) (string) (object) (array) (new_expression) (call_expression)])) @definition.constant)
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name
  value: [(number) (string) (object) (array) (new_expression) (call_expression)])) @definition.constant))
(import_statement source: (string (string_fragment) @import))
(call_expression function: (identifier) @reference)
(call_expression function: (member_expression property: (property_identifier) @reference))
(new_expression constructor: (identifier) @reference)
