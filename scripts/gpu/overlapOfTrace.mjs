// How much of the time in which a run's links are busy something is computed, too: from the run's trace. Pure.

/** Intervals that touch or overlap made one, in order. @param intervals [begin, end] */
export function union(intervals) {
  const merged = [];
  for (const [begin, end] of intervals.filter(([from, to]) => to > from).sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last !== undefined && begin <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([begin, end]);
  }
  return merged;
}

export function lengthOf(intervals) {
  return intervals.reduce((sum, [begin, end]) => sum + end - begin, 0);
}

/** What two unions have in common. */
export function intersection(a, b) {
  const common = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const [begin, end] = [Math.max(a[i][0], b[j][0]), Math.min(a[i][1], b[j][1])];
    if (end > begin) common.push([begin, end]);
    if (a[i][1] < b[j][1]) i++;
    else j++;
  }
  return common;
}

const LINKS = ['host-to-device', 'device-to-host'];
const COMPUTE = ['gpu-compute', 'cpu-compute'];
const DISK = ['disk-read', 'disk-write'];

/**
 * @param trace events of `onTrace`
 * @returns seconds in which links, the disk and computing were busy; `overlapped`: of the links' seconds those with
 * computing beside them; as shares of the links'
 *   and of the shorter of both (of which no more than all can be overlapped). Shares are undefined where a queue did
 *   nothing.
 */
export function overlapOfTrace(trace) {
  const names = new Map(
    trace.filter(({ ph, name }) => ph === 'M' && name === 'thread_name').map(({ tid, args }) => [tid, args.name]),
  );
  // In whole nanoseconds, as the device's clock is: a task that begins when another one ends does not overlap it.
  const busy = (queues) =>
    union(
      trace
        .filter(({ ph, tid }) => ph === 'X' && queues.includes(names.get(tid)))
        .map(({ ts, dur = 0 }) => [Math.round(ts * 1e3), Math.round((ts + dur) * 1e3)]),
    );
  const [link, compute, disk] = [busy(LINKS), busy(COMPUTE), busy(DISK)];
  const [linkSeconds, computeSeconds, overlappedSeconds] = [link, compute, intersection(link, compute)].map(
    (each) => lengthOf(each) / 1e9,
  );
  const shorter = Math.min(linkSeconds, computeSeconds);
  const all = union([...link, ...compute, ...disk]);
  return {
    linkSeconds,
    computeSeconds,
    overlappedSeconds,
    diskSeconds: lengthOf(disk) / 1e9,
    wallSeconds: all.length === 0 ? 0 : (all.at(-1)[1] - all[0][0]) / 1e9,
    ...(shorter > 0 && { shareOfLink: overlappedSeconds / linkSeconds, shareOfShorter: overlappedSeconds / shorter }),
  };
}
