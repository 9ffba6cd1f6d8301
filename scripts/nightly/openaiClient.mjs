// Drawn requests of OpenAI's own client, with its parameters and tools, answered as lines of batch files, and read by
// the client again: what it parses is what was asked for.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Draws requests, has the client of the package openai make and read them, and answers them from batch files.
  --openai DIR   a folder whose node_modules have openai and zod (npm install openai zod)
  --rows N       requests (default 1000)`;
/** Requests of one batch file. */
const BATCH = 100;

await runCampaign(
  {
    usage: USAGE,
    options: { openai: { type: 'string' }, rows: { type: 'string', default: '1000' } },
    done: 'answers that the client reads',
  },
  async (campaign) => {
    needBuild();
    const require = createRequire(join(campaign.values.openai ?? ROOT, 'package.json'));
    const load = (name) => import(pathToFileURL(require.resolve(name)).href);
    const { default: OpenAI } = await load('openai');
    const { zodFunction, zodResponseFormat } = await load('openai/helpers/zod');
    const { z } = await load('zod');
    const { Engine } = await import(join(ROOT, 'dist/index.js'));
    const { readRows, encodeResults } = await import(join(ROOT, 'dist/api/jobs.js'));
    const path = await tinyTextModel(campaign);
    if (!existsSync(path)) throw new Error(`${path} is missing`);
    const engine = await Engine.open({ model: path, learn: false });
    const { random } = campaign;
    const maybe = (share, members) => (random.next() < share ? members() : {});

    const Answer = z.object({ name: z.string().max(6), many: z.array(z.int().min(0).max(99)).max(3) });
    const Call = z.object({ kind: z.enum(['a', 'b "c"', 'ü']), exact: z.boolean(), n: z.int().min(0).max(9) });
    const drawn = (nth) => {
      const tools = random.next() < 0.4;
      const format = !tools && random.next() < 0.5;
      return {
        model: 'm',
        messages: [
          ...(random.next() < 0.3 ? [{ role: 'developer', content: 'Be brief.' }] : []),
          { role: 'user', content: random.next() < 0.5 ? `What ${nth}?` : [{ type: 'text', text: `What ${nth}?` }] },
        ],
        max_completion_tokens: tools || format ? 600 : 1 + Math.floor(random.next() * 20),
        temperature: random.pick([0, 0.7, 1]),
        seed: nth,
        ...maybe(0.3, () => ({ top_p: 0.9 })),
        ...maybe(0.2, () => ({ presence_penalty: 0.5, frequency_penalty: -0.5 })),
        ...maybe(0.2, () => ({ n: 2 })),
        ...maybe(tools || format ? 0 : 0.3, () => ({ stop: ['e', '\n'], logit_bias: { 40: -5 } })),
        ...(format && { response_format: zodResponseFormat(Answer, 'answer') }),
        ...(tools && {
          tools: [zodFunction({ name: 'call_it', parameters: Call, description: 'Calls it.' })],
          tool_choice: random.pick(['required', { type: 'function', function: { name: 'call_it' } }]),
          parallel_tool_calls: random.next() < 0.5,
        }),
      };
    };

    const wanted = campaign.number('rows', 1);
    for (let from = 0; from < wanted && campaign.goesOn; from += BATCH) {
      const lines = [];
      const answers = new Map();
      const client = new OpenAI({
        apiKey: 'none',
        maxRetries: 0,
        fetch: (url, { body }) =>
          new Promise((resolve) => {
            const custom_id = `r${from + lines.length}`;
            answers.set(custom_id, resolve);
            lines.push(
              JSON.stringify({ custom_id, method: 'POST', url: new URL(url).pathname, body: JSON.parse(String(body)) }),
            );
          }),
      });
      const count = Math.min(BATCH, wanted - from);
      const requests = Array.from({ length: count }, (_, nth) => drawn(from + nth));
      // `parse` takes a limit of tokens for an error, in what is no format, too.
      const read = requests.map((request) =>
        client.chat.completions[request.tools || request.response_format ? 'parse' : 'create'](request).catch(
          (error) => error,
        ),
      );
      while (lines.length < count) await new Promise((resolve) => setTimeout(resolve, 10));
      const rows = readRows(Readable.from([lines.join('\n')]), { format: 'openai-batch', carryFields: true });
      const parts = [];
      for await (const part of encodeResults(engine.generate(rows), { format: 'openai-batch' })) parts.push(part);
      for (const line of Buffer.concat(parts).toString().trim().split('\n')) {
        const { custom_id, response } = JSON.parse(line);
        const { status_code: status, body } = response;
        answers.get(custom_id)(
          new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } }),
        );
      }
      for (const [at, parsed] of (await Promise.all(read)).entries()) {
        const request = requests[at];
        if (parsed instanceof Error) {
          // What a limit of tokens cuts off is an error of the row.
          if (/cut off|limit of/.test(parsed.message)) campaign.count('cut off by their limit');
          else campaign.violation(parsed.message, JSON.stringify(request));
          continue;
        }
        const problems = parsed.choices.flatMap(({ message, finish_reason }) => [
          ...(request.response_format && !Answer.safeParse(message.parsed).success ? ['no value of its format'] : []),
          ...(request.tools && !(message.tool_calls?.length > 0) ? ['no call'] : []),
          ...(message.tool_calls ?? []).flatMap(({ function: call }) =>
            Call.safeParse(call.parsed_arguments).success ? [] : [`arguments ${call.arguments}`],
          ),
          ...(['stop', 'length', 'tool_calls'].includes(finish_reason) ? [] : [`finish_reason ${finish_reason}`]),
        ]);
        if (parsed.choices.length !== (request.n ?? 1)) problems.push(`${parsed.choices.length} choices`);
        if (!(parsed.usage?.total_tokens > 0)) problems.push('no usage');
        for (const problem of problems) campaign.violation(problem, JSON.stringify([request, parsed]).slice(0, 2000));
        campaign.count('answers that the client reads');
        campaign.count(
          'calls of tools',
          parsed.choices.reduce((sum, { message }) => sum + (message.tool_calls?.length ?? 0), 0),
        );
      }
    }
    await engine.close();
  },
);
