// The package `openai` of PyPI as a client of a server, over the small real model.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild, realModel } from './lib/models.mjs';
import { startServer } from './lib/servers.mjs';

const USAGE = `Has the package \`openai\` of PyPI talk to \`spillway serve\`: chats, streams, log-probabilities, schemas, embeddings, a batch.
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
    const server = await startServer(['--model', real, '--port', '0', '--data', join(campaign.folder, 'data')]);
    const { data } = await (await fetch(`${server.url}/v1/models`)).json();
    const script = join(ROOT, 'scripts/nightly/lib/openaiClient.py');
    try {
      const { stdout } = await promisify(execFile)(campaign.values.python, [
        script,
        server.url,
        data[0].id,
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
