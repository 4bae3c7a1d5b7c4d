(function_definition name: (identifier) @name
  body: (block . (expression_statement (string) @doc)? ) @body) @definition.function
(class_definition name: (identifier) @name
  body: (block . (expression_statement (string) @doc)? ) @body) @definition.class
(module (expression_statement (assignment left: (identifier) @name)) @definition.constant)
(import_statement name: (dotted_name) @import)
(import_statement name: (aliased_import name: (dotted_name) @import))
(import_from_statement module_name: (_) @import)
(call function: (identifier) @reference)
(call function: (attribute attribute: (identifier) @reference))
