//! Which texts a grammar lets through, byte by byte: a line `{"grammar": SCHEMA, "texts": [TEXT, …]}` in, a line `[true, …]` or `{"error": WORDS}` out. For scripts/nightly/structured.mjs.
use std::io::{stdin, BufRead};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{Matcher, ParserFactory};
use serde_json::{json, Value};

fn main() -> anyhow::Result<()> {
    let mut factory = ParserFactory::new_simple(&ApproximateTokEnv::single_byte_env())?;
    factory.quiet();
    for line in stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line?)?;
        println!("{}", admitted(&factory, &line["grammar"], &line["texts"]).unwrap_or_else(|error| json!({ "error": error.to_string() })));
    }
    Ok(())
}

fn admitted(factory: &ParserFactory, grammar: &Value, texts: &Value) -> anyhow::Result<Value> {
    let fresh = Matcher::new(factory.create_parser(TopLevelGrammar::from_json_schema(grammar.clone())));
    if let Some(error) = fresh.get_error() {
        anyhow::bail!(error);
    }
    texts.as_array().into_iter().flatten().map(|text| {
        let mut matcher = fresh.deep_clone();
        let bytes: Vec<u32> = text.as_str().unwrap_or_default().bytes().map(u32::from).collect();
        Ok(json!(matcher.try_consume_tokens(&bytes)? == bytes.len() && matcher.is_accepting()?))
    }).collect()
}
