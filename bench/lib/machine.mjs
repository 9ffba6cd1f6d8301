// What a figure was measured on, and what else the machine did meanwhile.
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

/** A run during which others took more than this share of the machine is marked as disturbed. */
export const QUIET = 0.02;

/** Busy and total time of the whole machine so far, in seconds; undefined where the system does not tell. */
export function machineSeconds() {
  try {
    const [line] = readFileSync('/proc/stat', 'utf8').split('\n');
    const fields = line.trim().split(/\s+/).slice(1, 9).map(Number);
    const total = fields.reduce((sum, ticks) => sum + ticks, 0);
    return { busy: (total - fields[3] - fields[4]) / 100, total: total / 100 };
  } catch {
    return undefined;
  }
}

/**
 * Processor seconds of the children of this process that have ended and been waited for; undefined where the system
 * does not tell.
 */
export function endedChildrenSeconds() {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    // The name in parentheses may hold blanks; fields 16 and 17 of proc(5) are the children's user and system ticks.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[13]) + Number(fields[14])) / 100;
  } catch {
    return undefined;
  }
}

/** What the kernels can use, best first, as Linux names it. */
const INSTRUCTION_SETS = ['amx_int8', 'avx512_vnni', 'avx512f', 'avx_vnni', 'avx2', 'i8mm', 'asimddp'];

/**
 * A hypervisor may call processors of every generation by one name; family, model and instruction sets tell them apart.
 */
export function describeProcessor(name, cpuInfo) {
  const field = (key) => new RegExp(`^${key}\\s*:\\s*(.*)$`, 'm').exec(cpuInfo)?.[1].trim();
  const [family, model, flags] = [
    field('cpu family'),
    field('model'),
    (field('flags') ?? field('Features') ?? '').split(' '),
  ];
  const facts = [
    ...(family && model ? [`family ${family} model ${model}`] : []),
    ...INSTRUCTION_SETS.filter((set) => flags.includes(set)).slice(0, 1),
  ];
  return facts.length > 0 ? `${name} (${facts.join(', ')})` : name;
}

function cpuInfo() {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return '';
  }
}

export function describeMachine(threads) {
  return {
    processor: describeProcessor(cpus()[0]?.model.trim() ?? 'unknown', cpuInfo()),
    processors: cpus().length,
    threads,
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()} ${process.arch}`,
    node: process.versions.node,
  };
}

export function machineInWords(machine) {
  const memory = `${Math.round(machine.memoryBytes / 2 ** 20)} MiB`;
  return `${machine.processor}, ${machine.threads} of ${machine.processors} threads, ${memory}, ${machine.system}, node ${machine.node}`;
}
