import type { Task, TaskEvent } from './Task.js';

/** The devices' own, settable side of a TaskEvent. */
export class PendingEvent implements TaskEvent {
  timing: { readonly start: number; readonly end: number } | undefined;
  error: Error | undefined;

  constructor(
    readonly id: number,
    readonly task: Task,
  ) {}
}
