/**
 * Seconds in which each of so many squares gets through once, where each begins anew as it has got through: they queue
 * at stations that serve one at a time, so many seconds each, and wait elsewhere without queueing. Mean value analysis
 * of a closed network (Reiser and Lavenberg 1980): whoever comes to a station finds there on average what would be
 * there without it. One alone waits for nobody; of many the station that takes longest is what counts. Pure.
 *
 * @param squares on average; between two numbers of them as far between
 */
export function closedNetworkSeconds(squares: number, stations: readonly number[], elsewhere: number): number {
  let queued = stations.map(() => 0);
  let [before, seconds] = [0, 0];
  for (let count = 1; count <= Math.ceil(squares); count++) {
    const spent = stations.map((each, at) => each * (1 + (queued[at] ?? 0)));
    before = seconds;
    seconds = spent.reduce((sum, each) => sum + each, elsewhere);
    const whole = seconds;
    queued = spent.map((each) => (whole > 0 ? (count * each) / whole : 0));
  }
  const part = squares - Math.floor(squares);
  return part > 0 && squares > 1 ? before + part * (seconds - before) : seconds;
}
