import { Duplex } from 'node:stream';

/** Two ends of a connection in memory: what is written to one is read from the other. (Node's own is too young.) */
export function duplexPair(): [Duplex, Duplex] {
  const ends: Duplex[] = [];
  const end = (index: number): Duplex =>
    new Duplex({
      read: () => undefined,
      write: (chunk: Buffer, _, done) => {
        ends[1 - index]?.push(chunk);
        setImmediate(done);
      },
      final: (done) => {
        ends[1 - index]?.push(null);
        done();
      },
      destroy: (error, done) => {
        const other = ends[1 - index];
        if (other && !other.destroyed && !other.readableEnded) other.push(null);
        done(error);
      },
    });
  ends.push(end(0), end(1));
  return ends as [Duplex, Duplex];
}
