// Calls of tools as real chat templates write them, read back: the same calls, whatever their arguments are.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild } from './lib/models.mjs';
import { drawnCalls, TOOLS } from './lib/toolCalls.mjs';

const USAGE = `Renders drawn calls of tools with the chat templates of a folder, and reads them back out of what the assistant says.
  --templates DIR   chat templates (*.jinja)
  --cases N         drawn conversations a template (default 200)`;

/** What templates put after an assistant's turn. */
const END =
  /(<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\/s>|<｜end▁of▁sentence｜>(?:<｜Assistant｜>)?|<turn\|>|<\|end_of_text\|>|\[e~\[|<\|call\|>|<\|end_of_turn\|>|<end_of_turn>|<\|tool_response>)\s*$/;

/** Members of objects in an order of their own: a form may have another. */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key])]),
  );
}

await runCampaign(
  {
    usage: USAGE,
    options: { templates: { type: 'string' }, cases: { type: 'string', default: '200' } },
    done: 'read back',
  },
  async (campaign) => {
    needBuild();
    const load = (file) => import(join(ROOT, 'dist', file));
    const { Template } = await load('model/tokenizer/jinja/Template.js');
    const { formIn } = await load('engine/tools/forms/index.js');
    const { parsedAnswer } = await load('engine/tools/AnswerReader.js');
    const { callableTools } = await load('engine/tools/callableTools.js');
    const { reasoningMarksIn } = await load('model/tokenizer/ChatTemplate.js');
    const tools = await callableTools(TOOLS.map(({ function: { name, parameters } }) => ({ name, parameters })));
    const forms = {};
    for (const file of readdirSync(campaign.values.templates).filter((name) => name.endsWith('.jinja'))) {
      const source = readFileSync(join(campaign.values.templates, file), 'utf8');
      const form = formIn(source);
      (forms[form?.name ?? 'none'] ??= []).push(file.replace('.jinja', ''));
      if (form === undefined) continue;
      const template = new Template(source);
      const marks = reasoningMarksIn(source);
      const render = (messages, more) =>
        template.render({
          variables: { bos_token: '', eos_token: '', documents: null, messages, tools: TOOLS, ...more },
          now: new Date(0),
          messages: messages.length,
          size: 10_000,
        });
      const user = { role: 'user', content: 'What now?' };
      let failure;
      for (let nth = 0; nth < Number(campaign.values.cases); nth++) {
        const calls = drawnCalls(() => campaign.random.next(), form.name);
        const tool_calls = calls.map(({ name, arguments: given }, at) => ({
          id: `abcdef${String(at).padStart(3, '0')}`,
          type: 'function',
          function: { name, arguments: given },
        }));
        let answer;
        try {
          const before = render([user], { add_generation_prompt: true });
          const said = { role: 'assistant', tool_calls };
          const rendered = (message) => render([user, message], { add_generation_prompt: false });
          let whole = rendered({ ...said, content: '' });
          // Some look whether there is any content.
          if (
            !whole.includes(`${calls[0].name}`) ||
            !whole.includes('▁calls▁begin') === source.includes('▁calls▁begin')
          )
            whole = rendered({ ...said, content: null });
          let at = 0;
          while (at < before.length && before[at] === whole[at]) at++;
          // A mark that begins like another one of the prompt's.
          const open = whole.lastIndexOf('<', at - 1);
          if (open >= 0 && !whole.slice(open, at).includes('>')) at = open;
          answer = whole.slice(at).replace(END, '');
        } catch (error) {
          failure ??= `${error.message}`;
          break;
        }
        const read = parsedAnswer(form, answer, tools, { marks, open: false });
        const got =
          read.problem ?? read.calls.map(({ name, arguments: written }) => ({ name, arguments: JSON.parse(written) }));
        if (JSON.stringify(sorted(got)) === JSON.stringify(sorted(calls))) campaign.count('read back');
        else
          campaign.violation(
            `${file} (${form.name}): ${JSON.stringify(answer)} was read as ${JSON.stringify(got)}, not ${JSON.stringify(calls)}`,
          );
      }
      if (failure !== undefined) console.log(`${file} (${form.name}) refuses: ${failure.slice(0, 200)}`);
    }
    for (const [name, files] of Object.entries(forms)) console.log(`${name}: ${files.join(', ')}`);
  },
);
