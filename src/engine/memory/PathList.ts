import type { PrefixPath } from './PrefixNode.js';

/** The rows that wait, in depth-first order. */
export class PathList {
  private first: PrefixPath | undefined;
  private last: PrefixPath | undefined;

  get isEmpty(): boolean {
    return this.first === undefined;
  }

  /** Yields the rows that are there when they are come to; whoever gets one may remove it. */
  *[Symbol.iterator](): Generator<PrefixPath, void, undefined> {
    for (let path = this.first; path;) {
      const { behind } = path;
      yield path;
      path = behind;
    }
  }

  insert(path: PrefixPath, before = this.last): void {
    path.before = before;
    path.behind = before ? before.behind : this.first;
    this.join(before, path);
    this.join(path, path.behind);
  }

  remove({ before, behind }: PrefixPath): void {
    this.join(before, behind);
  }

  private join(before: PrefixPath | undefined, behind: PrefixPath | undefined): void {
    if (before) before.behind = behind;
    else this.first = behind;
    if (behind) behind.before = before;
    else this.last = before;
  }
}
