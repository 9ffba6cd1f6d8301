// A server whose model answers by rule (test/serve/support/StubEngine.ts): `stubServer.mjs DATA OPTIONS`.
import { register } from 'node:module';
import { serve } from '../../../dist/api/serve.js';

register('../../typescriptHooks.mjs', import.meta.url);
const { StubEngine } = await import('../../../test/serve/support/StubEngine.ts');

const [data, options = '{}'] = process.argv.slice(2);
const ending = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => ending.abort());
const server = await serve({
  models: [{ name: 'stub', open: async () => new StubEngine(JSON.parse(options)) }],
  port: 0,
  data,
  onMessage: (message) => process.stderr.write(`${message}\n`),
  signal: ending.signal,
});
process.stdout.write(`${JSON.stringify({ url: server.url })}\n`);
await server.closed;
