import { Observable } from 'rxjs';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import type { Stage } from './stageInternals.js';

/**
 * Waits: a square passes when all that was issued for it has completed, in the order in which squares came. It is the
 * only stage that does. A failed task is the stream's error.
 *
 *     squares   --a-b-c------|
 *     events        a  c b                (b's and c's tasks end in the other order)
 *     out       ----a----(bc|)
 */
export function synchronize(run: StageContext): Stage {
  return (squares$) =>
    new Observable<IssuedSquare>((subscriber) => {
      const waiting: IssuedSquare[] = [];
      let sourceDone = false;
      const drain = (): void => {
        for (;;) {
          const square = waiting[0];
          if (!square || subscriber.closed) break;
          let pending = false;
          for (const { error, timing } of square.events.all) {
            if (error) {
              waiting.length = 0;
              subscriber.error(error);
              return;
            }
            pending ||= timing === undefined;
          }
          if (pending) return;
          waiting.shift();
          subscriber.next(square);
        }
        if (sourceDone) subscriber.complete();
      };
      subscriber.add(
        run.device.completed$.subscribe((burst) => {
          for (const { event, head } of burst) {
            if (head) for (const square of waiting) if (square.events.compute === event) square.events.head = head;
          }
          drain();
        }),
      );
      subscriber.add(
        squares$.subscribe({
          next: (square) => {
            waiting.push(square);
            if (square.events.all.length === 0) drain();
          },
          error: (error: unknown) => {
            subscriber.error(error);
          },
          complete: () => {
            sourceDone = true;
            drain();
          },
        }),
      );
    });
}
