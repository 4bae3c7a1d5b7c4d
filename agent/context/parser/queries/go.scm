(function_declaration name: (identifier) @name body: (_)? @body) @definition.function
(method_declaration name: (field_identifier) @name body: (_)? @body) @definition.function
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @definition.class
(type_spec name: (type_identifier) @name type: (interface_type)) @definition.interface
(type_spec name: (type_identifier) @name type: [(type_identifier) (function_type) (map_type) (slice_type) (pointer_type)]) @definition.type
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.constant))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition.constant))
(import_spec path: (interpreted_string_literal (interpreted_string_literal_content) @import))
(call_expression function: (identifier) @reference)
(call_expression function: (selector_expression field: (field_identifier) @reference))
