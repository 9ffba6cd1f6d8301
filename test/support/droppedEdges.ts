import type { Device } from '../../src/engine/grid/Device.js';
import type { SimulatedDevice } from '../../src/engine/execution/SimulatedDevice.js';
import type { Task, TaskName } from '../../src/engine/grid/Task.js';
import { overriding } from './overriding.js';

/** A dependency between two tasks: whether a task of the one kind waits for one of the other. */
export type Edge = (earlier: Task, later: Task) => boolean;

export const sameSquare = (a: Task, b: Task): boolean =>
  a.batch.pass === b.batch.pass && a.layer === b.layer && a.batch.slot === b.batch.slot;
export const edge =
  (from: TaskName, to: TaskName): Edge =>
  (earlier, later) =>
    earlier.name === from && later.name === to;

/** A device on which tasks don't wait for what the edge says. */
export function withoutEdge(dropped: Edge): (device: SimulatedDevice) => Device {
  return (device) =>
    overriding<Device>(device, {
      submit: (task, after) =>
        device.submit(
          task,
          after.filter((event) => !dropped(event.task, task)),
        ),
    });
}
