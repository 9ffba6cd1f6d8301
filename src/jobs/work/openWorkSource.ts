import { checkSignal, checkText } from '../../arguments/checks.js';
import { checkJobName, parseQueueAddress } from './QueueAddress.js';
import type { WorkSource } from './WorkSource.js';
import { natsWork } from './nats/natsWork.js';
import { postgresWork } from './postgres/postgresWork.js';

/**
 * The shards of a job in a queue that exists: on NATS JetStream (`nats://HOST:PORT`, `tls://…`), by the packages
 * `@nats-io/transport-node`, `@nats-io/jetstream` and `@nats-io/kv`, or in Postgres (`postgres://HOST/DATABASE`), by
 * `pg`. All of them are the user's to install.
 * @param queue its URL. Credentials of it, or of the environment, come into no message
 * @param job what the job is called: 1 to 64 letters, digits, _ and -
 * @param signal once it fires, no call waits any longer for a queue that is away; shards are given back all the same
 * @throws UsageError for a URL of another kind, and where the package is not installed; QueueError where the queue
 * cannot be reached; InterruptedError
 * @example
 * await using source = await openWorkSource('nats://localhost:4222', 'tickets');
 * await runWork({ source, engine });
 */
export async function openWorkSource(
  queue: string,
  job: string,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<WorkSource> {
  checkText('queue', queue, 'a URL');
  checkJobName(job);
  checkSignal('signal', signal);
  const address = parseQueueAddress(queue);
  return address.kind === 'nats' ? natsWork(address, job, { signal }) : postgresWork(address, job, { signal });
}
