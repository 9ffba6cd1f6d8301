// The package `openai` of PyPI as a client of a server, over the small real model.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild, realModel, tinyTextModel } from './lib/models.mjs';
import { startServer } from './lib/servers.mjs';

const KEY = 'a-key-of-16-bytes';
const USAGE = `Has the package \`openai\` of PyPI talk to \`spillway serve\`: chats, streams, log-probabilities, schemas, tools, embeddings, files, batches, errors.
  --python FILE  an interpreter that has it (default python3)
  --rows N       requests of the batch (default 500)`;

await runCampaign(
  {
    usage: USAGE,
    minutes: 20,
    done: 'clients',
    options: { python: { type: 'string', default: 'python3' }, rows: { type: 'string', default: '500' } },
  },
  async (campaign) => {
    needBuild();
    const real = await realModel(campaign);
    if (real === undefined) return;
    const tools = await tinyTextModel(campaign, 'hermes');
    const data = join(campaign.folder, 'data');
    const server = await startServer(
      ['--model', real, '--model', tools, '--port', '0', '--data', data, '--open-requests', '8'],
      { env: { SPILLWAY_API_KEY: KEY } },
    );
    const script = join(ROOT, 'scripts/nightly/lib/openaiClient.py');
    try {
      const { stdout } = await promisify(execFile)(campaign.values.python, [
        script,
        server.url,
        real,
        tools,
        campaign.values.rows,
      ]);
      campaign.set('found', stdout.trim());
    } catch (error) {
      campaign.violation('the client failed', `${error.stdout ?? ''}${error.stderr ?? error.stack}`);
    }
    campaign.count('clients');
    server.child.kill('SIGTERM');
    await server.ended;
  },
);
