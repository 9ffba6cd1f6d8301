//! Which values a grammar lets through, whatever order their keys are in, within the addon's limits: a line `{"grammar": SCHEMA, "values": [VALUE, …]}` in, a line `[true, …]` or `{"error": WORDS}` out; null for a value of which not all orders were tried. For scripts/nightly/structured.mjs and maskBench.mjs.
use std::io::{stdin, BufRead};

use llguidance::api::{GrammarInit, TopLevelGrammar};
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{Logger, Matcher, ParserFactory};
use serde_json::{json, Value};

#[allow(dead_code)]
#[path = "../src/bounds.rs"]
mod bounds;
#[path = "../src/limits.rs"]
mod limits;

/// Keys that are tried, of one value.
const MOST_TRIES: usize = 20_000;

fn main() -> anyhow::Result<()> {
    let mut factory = ParserFactory::new_simple(&ApproximateTokEnv::single_byte_env())?;
    factory.quiet();
    for line in stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line?)?;
        println!("{}", admitted(&factory, &line["grammar"], &line["values"]).unwrap_or_else(|error| json!({ "error": error.to_string() })));
    }
    Ok(())
}

fn admitted(factory: &ParserFactory, grammar: &Value, values: &Value) -> anyhow::Result<Value> {
    bounds::check_schema(grammar)?;
    let init = GrammarInit::Serialized(TopLevelGrammar::from_json_schema(grammar.clone()));
    let fresh = Matcher::new(factory.create_parser_from_init_ext(init, Logger::new(0, 0), Default::default(), limits::limits()));
    if let Some(error) = fresh.get_error() {
        anyhow::bail!(error);
    }
    Ok(values.as_array().into_iter().flatten().map(|value| {
        let mut tries = MOST_TRIES;
        let follows = can_follow(fresh.deep_clone(), vec![Part::Value(value)], &mut tries);
        if follows || tries > 0 { json!(follows) } else { Value::Null }
    }).collect())
}

/// What has still to be written, the last first.
#[derive(Clone)]
enum Part<'a> {
    Text(String),
    Value(&'a Value),
    /// Properties in whatever order, then the bracket.
    Properties(Vec<(&'a String, &'a Value)>, bool),
}

fn can_follow(mut matcher: Matcher, mut parts: Vec<Part>, tries: &mut usize) -> bool {
    while let Some(part) = parts.pop() {
        match part {
            Part::Text(text) => {
                let bytes: Vec<u32> = text.bytes().map(u32::from).collect();
                if matcher.try_consume_tokens(&bytes).ok() != Some(bytes.len()) {
                    return false;
                }
            }
            Part::Value(Value::Array(items)) => {
                parts.push(Part::Text("]".into()));
                for (at, item) in items.iter().enumerate().rev() {
                    parts.push(Part::Value(item));
                    if at > 0 {
                        parts.push(Part::Text(",".into()));
                    }
                }
                parts.push(Part::Text("[".into()));
            }
            Part::Value(Value::Object(fields)) => parts.extend([Part::Properties(fields.iter().collect(), true), Part::Text("{".into())]),
            Part::Value(value) => parts.push(Part::Text(written(value))),
            Part::Properties(left, _) if left.is_empty() => parts.push(Part::Text("}".into())),
            Part::Properties(left, first) => {
                return (0..left.len()).any(|at| {
                    if *tries == 0 {
                        return false;
                    }
                    *tries -= 1;
                    let (name, value) = left[at];
                    let mut others = left.clone();
                    others.remove(at);
                    let mut rest = parts.clone();
                    rest.extend([Part::Properties(others, false), Part::Value(value), Part::Text(format!("{}{}:", if first { "" } else { "," }, Value::from(name.as_str())))]);
                    can_follow(matcher.deep_clone(), rest, tries)
                });
            }
        }
    }
    matcher.is_accepting().unwrap_or(false)
}

/// A scalar as JSON; numbers without an exponent, which masks have none of.
fn written(value: &Value) -> String {
    let text = value.to_string();
    match value.as_f64() {
        Some(number) if text.contains(['e', 'E']) => number.to_string(),
        _ => text,
    }
}
