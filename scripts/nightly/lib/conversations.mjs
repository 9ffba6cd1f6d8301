// Conversations of all shapes that templates meet: JSON texts, as numbers keep their spelling in them.

const WEATHER = `{"type":"function","function":{"name":"get_weather","description":"Weather at a place.","parameters":{"type":"object","properties":{"city":{"type":"string","description":"A city"},"unit":{"type":"string","enum":["celsius","fahrenheit"],"default":"celsius"},"days":{"type":"integer","minimum":1,"maximum":14.0}},"required":["city"]}}}`;
const SEARCH = `{"type":"function","function":{"name":"search","description":"Finds \\"things\\" — ünïcödé <b>&</b> 日本 😀","parameters":{"type":"object","properties":{"query":{"type":"string"},"filters":{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}},"strict":{"type":"boolean","default":false}}},"limit":{"type":["integer","null"],"default":null},"ratio":{"type":"number","exclusiveMinimum":0.0,"default":1e-05}},"required":["query"]},"return":{"type":"array"}}}`;
const BARE = `{"type":"function","function":{"name":"now","description":"The time.","parameters":{"type":"object","properties":{}}}}`;

const user = (content) => `{"role":"user","content":${JSON.stringify(content)}}`;
const assistant = (content, more = '') => `{"role":"assistant","content":${JSON.stringify(content)}${more}}`;
const system = (content) => `{"role":"system","content":${JSON.stringify(content)}}`;
const call = (name, args, id = 'call00001') =>
  `{"id":"${id}","type":"function","function":{"name":"${name}","arguments":${args}}}`;
const called = (calls, content = 'null', more = '') =>
  `{"role":"assistant","content":${content},"tool_calls":[${calls.join(',')}]${more}}`;
const result = (content, id = 'call00001', name = 'get_weather') =>
  `{"role":"tool","tool_call_id":"${id}","name":"${name}","content":${JSON.stringify(content)}}`;
const chat = (messages, more = {}) => ({ messages: `[${messages.join(',')}]`, ...more });
const tools = (...list) => ({ tools: `[${list.join(',')}]` });

const KINDS = [
  '"text"', '""', '"a \\"quoted\\" \\\\ line\\nand\\ttab"', '"日本語 😀 ünï"', '1', '0', '-7', '1.0', '2.50', '1e-05', '1e22', '12345678901234567890', 'true', 'false', 'null', '[]', '{}', '[1,2.0,"three",null,true]', '{"a":{"b":[{"c":1.5}]}}', '"<|im_end|>"', '"<b>&\'</b>"',
]; // prettier-ignore

/** Each with `messages`, and `tools`, `args`, `documents` where it has some; JSON texts. */
export const CONVERSATIONS = [
  chat([user('Hi')]),
  chat([user('')]),
  chat([user('  blanks round it \n\n')]),
  chat([user('Grüße 日本語 😀 \u200b <|im_end|> </s> [INST] <think>')]),
  chat([system('Be brief.'), user('Hi')]),
  chat([system('  Be brief. \n'), user('Hi')]),
  chat([system(''), user('Hi')]),
  chat([user('Hi'), assistant('Hello!'), user('Bye')]),
  chat([system('S'), user('a'), assistant('b'), user('c'), assistant('d'), user('e')]),
  chat([user('a'), assistant('b')]),
  chat([user('a'), user('b')]),
  chat([assistant('a'), user('b')]),
  chat([user('a'), system('b'), user('c')]),
  chat([system('S')]),
  chat([user('a'), assistant(' padded \n'), user('b')]),
  chat([`{"role":"user","content":[{"type":"text","text":"part one"},{"type":"text","text":" two"}]}`]),
  chat([`{"role":"user","content":[{"type":"text","text":"one"}]}`, `{"role":"assistant","content":[{"type":"text","text":"two"}]}`, user('x')]),
  chat([`{"role":"system","content":[{"type":"text","text":"sys"}]}`, user('x')]),
  chat([`{"role":"user","content":[]}`]),
  chat([`{"role":"developer","content":"dev"}`, user('x')]),
  chat([`{"role":"user","name":"Ann","content":"named"}`]),
  chat([user('q'), assistant('<think>\nreasons\n</think>\n\nanswer'), user('r')]),
  chat([user('q'), assistant('<think>only')]),
  chat([user('q'), assistant('answer', ',"reasoning_content":"because 😀"'), user('r')]),
  chat([user('q'), assistant('answer', ',"reasoning":"because"'), user('r')]),
  chat([user('q'), assistant('answer', ',"thinking":"because"'), user('r')]),
  chat([user('q'), assistant('answer', ',"reasoning_content":""'), user('r')]),
  chat([user('q'), assistant('answer', ',"reasoning_content":null'), user('r')]),
  chat([user('q'), assistant('answer', ',"reasoning_content":"  spaced\\n"')]),
  chat([user('q')], { args: '{"enable_thinking":true}' }),
  chat([user('q')], { args: '{"enable_thinking":false}' }),
  chat([user('q')], { args: '{"thinking":true}' }),
  chat([user('q')], { args: '{"reasoning_effort":"high","thinking_budget":512}' }),
  chat([user('q')], { args: '{"custom_instructions":"Do.","xml_tools":true,"date_string":"01 Jan 2026"}' }),
  chat([user('q'), assistant('a'), user('r')], { args: '{"enable_thinking":false,"clear_thinking":false,"preserve_thinking":true}' }),
  chat([user('q')], { documents: '[{"title":"T","text":"text of it"},{"title":"Ü","text":"other\\n"}]' }),
  chat([user('weather?')], tools(WEATHER)),
  chat([system('S'), user('weather?')], tools(WEATHER, SEARCH)),
  chat([user('now?')], tools(BARE)),
  chat([user('x')], { tools: '[]' }),
  chat([user('weather?'), called([call('get_weather', '{"city":"Paris"}')])], tools(WEATHER)),
  chat([user('weather?'), called([call('get_weather', '{"city":"Paris","days":2}')]), result('{"t": 20}')], tools(WEATHER)),
  chat([user('w?'), called([call('get_weather', '{"city":"Paris"}')], '"Let me see."'), result('20 degrees'), assistant('It is 20.'), user('thanks')], tools(WEATHER)),
  chat([user('w?'), called([call('get_weather', '"{\\"city\\": \\"Paris\\"}"')]), result('20'), user('and?')], tools(WEATHER)),
  chat([user('w?'), called([call('get_weather', '{"city":"Paris"}', 'call00001'), call('get_weather', '{"city":"Rome"}', 'call00002')]), result('20', 'call00001'), result('30', 'call00002')], tools(WEATHER, SEARCH)),
  chat([user('w?'), called([call('get_weather', '{"city":"Paris"}')], '""', ',"reasoning_content":"must look"'), result('20')], tools(WEATHER)),
  chat([user('w?'), called([call('now', '{}')], '""'), result('12:00', 'call00001', 'now'), user('ok')], tools(BARE)),
  chat([user('w?'), `{"role":"assistant","tool_calls":[${call('now', '{}')}]}`, result('12:00', 'call00001', 'now')], tools(BARE)),
  chat([user('w?'), `{"role":"assistant","content":"c","tool_calls":[]}`, user('x')], tools(WEATHER)),
  chat([user('w?'), `{"role":"assistant","content":"c","tool_calls":null}`, user('x')]),
  chat([user('w?'), `{"role":"assistant","content":null}`, user('x')]),
  chat([user('w?'), called([call('get_weather', '{"city":"Paris"}')]), `{"role":"tool","content":[{"type":"text","text":"20 °C"}],"tool_call_id":"call00001"}`], tools(WEATHER)),
  chat([user('w?'), called([call('get_weather', '{"city":"Paris"}')]), result('{"temperature": 1.0, "list": [1, 2]}'), called([call('search', '{"query":"x"}', 'call00003')]), result('[]', 'call00003', 'search'), assistant('Done.')], tools(WEATHER, SEARCH)),
  chat([user('w?'), called([`{"name":"get_weather","arguments":{"city":"Paris"}}`])], tools(WEATHER)),
  chat([user('w?'), result('orphan')], tools(WEATHER)),
  chat([user('s?'), called([call('search', `{${KINDS.map((kind, i) => `"k${i}":${kind}`).join(',')}}`)]), result('ok')], tools(SEARCH)),
  chat([user('s?'), called(KINDS.slice(0, 9).map((kind, i) => call('search', `{"query":${kind}}`, `call0000${i}`)))], tools(SEARCH)),
  chat([user('s?'), called(KINDS.slice(9).map((kind, i) => call('search', `{"query":${kind}}`, `call0001${i}`)), '""')], tools(SEARCH)),
  chat([user('q'), `{"role":"ipython","content":"out"}`, user('r')]),
]; // prettier-ignore
