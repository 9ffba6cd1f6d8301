/**
 * What a row's answer is held to, token by token. JSON is written as `JSON.stringify` writes it: without spaces, properties in the schema's order. A regular expression (Rust's syntax) matches the
 * whole answer; a grammar is one in Lark's notation, as llguidance reads it.
 */
export type ResponseFormat =
  | { readonly type: 'json_schema'; readonly schema: unknown }
  | { readonly type: 'regex'; readonly regex: string }
  | { readonly type: 'grammar'; readonly grammar: string }
  | { readonly type: 'choices'; readonly choices: readonly string[] };
