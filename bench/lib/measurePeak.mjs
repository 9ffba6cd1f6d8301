// The machine's arithmetic peak, measured by native/bench/peak.cpp, which is built where it is missing.
import { cacheFolder } from './cacheFolder.mjs';
import { buildNative, run } from './nativeBench.mjs';

/** @returns the path of the program */
export function buildPeak(cache = cacheFolder()) {
  return buildNative('build-peak', ['bench_peak'], cache)[0];
}

/**
 * @returns {{instructionSet: string, threads: number, int8OperationsPerSecond: number, floatOperationsPerSecond:
 * number, amxOperationsPerSecond: number}}
 *   a multiplication and an addition are two operations; 0 where there is no such loop for the machine
 */
export function measurePeak(program, threads) {
  return JSON.parse(run(program, [String(threads)]));
}
