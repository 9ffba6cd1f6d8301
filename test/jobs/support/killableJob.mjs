// A job in a process of its own, to be killed: node killableJob.mjs JOBS STUB INPUT OUTPUT ORDER
// JOBS and STUB are the built jobs and the compiled stub engine.
import { pathToFileURL } from 'node:url';

const [jobs, stub, input, output, order] = process.argv.slice(2);
const { runJob } = await import(pathToFileURL(jobs).href);
const { StubEngine } = await import(pathToFileURL(stub).href);

const engine = new StubEngine({ width: 6, delay: () => Math.random() * 10 });
await runJob({ engine, input, output, resume: true, generate: { order } });
