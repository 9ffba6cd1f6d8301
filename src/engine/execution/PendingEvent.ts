import type { Task, TaskEvent } from '../grid/Task.js';

/** The devices' own, settable side of a TaskEvent. */
export class PendingEvent implements TaskEvent {
  timing: { readonly start: number; readonly end: number } | undefined;
  error: Error | undefined;
  read: TaskEvent['read'];

  private waiting: (() => void)[] | undefined;

  constructor(
    readonly id: number,
    readonly task: Task,
    readonly movesPages = false,
  ) {}

  /** Calls back once the event has completed: now, if it has. */
  whenCompleted(callback: () => void): void {
    if (this.timing) callback();
    else (this.waiting ??= []).push(callback);
  }

  /** Completes the event, well or not. */
  settle(timing: { readonly start: number; readonly end: number }, error?: Error): void {
    this.timing = timing;
    this.error = error;
    const { waiting } = this;
    this.waiting = undefined;
    for (const callback of waiting ?? []) callback();
  }
}
