import type { Registry, Labels } from '../../metrics/Registry.js';
import type { EngineActivity } from '../../RunStats.js';

/** Registers the metrics of a process. */
export function processMetrics(registry: Registry): void {
  registry.gauge('process_resident_memory_bytes', 'Resident memory of the process.', () => process.memoryUsage.rss());
  registry.counter('process_cpu_seconds_total', 'Processor time of the process.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  registry.gauge('process_start_time_seconds', 'When the process began.', () => Date.now() / 1000 - process.uptime());
}

/** Registers metrics of the queues and the memory of open engines, by the names of their models. */
export function engineMetrics(registry: Registry, engines: () => ReadonlyMap<string, EngineActivity>): void {
  const of =
    <Value>(
      members: (activity: EngineActivity) => Readonly<Record<string, Value>>,
      label: string,
      value: (member: Value) => number,
    ) =>
    (): [Labels, number][] =>
      [...engines()].flatMap(([model, activity]) =>
        Object.entries(members(activity)).map(([name, member]): [Labels, number] => [
          { model, [label]: name },
          value(member),
        ]),
      );
  for (const [name, help, value] of [
    ['busy_seconds', 'For how long a queue of an engine was busy.', ({ busySeconds }) => busySeconds],
    ['tasks', 'Tasks of a queue of an engine.', ({ tasks }) => tasks],
    ['bytes', 'Bytes that tasks of a queue of an engine moved.', ({ bytes }) => bytes],
  ] as const satisfies readonly (readonly [string, string, (queue: EngineActivity['queues'][string]) => number])[])
    registry.counter(
      `spillway_queue_${name}_total`,
      help,
      of(({ queues }) => queues, 'queue', value),
    );
  for (const [name, help, value] of [
    ['used', 'Bytes of a tier that are in use.', ({ usedBytes }) => usedBytes],
    ['capacity', 'Bytes of a tier that may be used.', ({ capacityBytes }) => capacityBytes],
    ['peak', 'The most bytes of a tier that were in use.', ({ peakBytes }) => peakBytes],
  ] as const satisfies readonly (readonly [string, string, (tier: EngineActivity['memory'][string]) => number])[])
    registry.gauge(
      `spillway_memory_${name}_bytes`,
      help,
      of(({ memory }) => memory, 'tier', value),
    );
}
