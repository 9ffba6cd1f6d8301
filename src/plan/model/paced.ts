import { PAGE_TOKENS } from '../reserves.js';
import { valueAt } from '../Affine.js';
import type { BlockSetting, CostModel } from '../CostModel.js';
import type { PlacementVector } from '../Placement.js';
import { refillsAtOnce, slotsOf } from '../Policy.js';
import type { Workload } from '../Workload.js';
import { sizesOf } from './sizes.js';
import { rowsOf } from './countSweeps.js';

/**
 * Page-sweeps of a row that takes `first` pages with its prompt and has `all` when it ends: what it takes at the middle
 * of its way, half a page more on average for the page that is being filled, and one sweep until all is given back.
 * Pure.
 * @param decoded sweeps in which it decodes
 */
export function pageSweeps(first: number, all: number, decoded: number): number {
  return decoded * ((first + all) / 2 + (all > first ? 0.5 : 0)) + first + all;
}

/**
 * A diagonal block with more rows than memory holds at their full length: rows come in as pages come free, so that rows
 * of all ages share them (memory/AdmissionPace; FlexGen, appendix A.2). Only where weights alone leave the memory; with
 * a GPU, or pages on disk, blocks are planned to fit wholly. Pure.
 *
 * @param cpuBytes what may be used of the memory
 * @returns the setting with the pages that there are and the pace that they allow; undefined where all rows fit, or not
 * even one does
 */
export function pacedSetting(
  model: CostModel,
  setting: BlockSetting,
  at: PlacementVector,
  cpuBytes: number,
): BlockSetting | undefined {
  const { hardware, workload, block } = setting;
  if (
    model.name !== 'spillway' ||
    !refillsAtOnce(block) ||
    workload.cachePages !== undefined ||
    hardware.memory.gpuBytes > 0 ||
    at.cn > 0 ||
    at.hn > 0
  )
    return undefined;
  const { rowPages, sharedPages, pageBytes } = sizesOf(setting);
  const places = Math.min(rowsOf(workload, block), slotsOf(block) * block.batchSize);
  const { memory } = model.blockAt({ ...setting, workload: { ...workload, cachePages: 0 } }, at);
  const taken = Math.max(...memory.filter(({ tier }) => tier === 'cpu').map(({ bytes }) => valueAt(bytes, at)));
  // The same room for rounding as where a plan is held to fit (`overflows`).
  const cachePages = Math.floor((cpuBytes * (1 + 1e-9) + 1 - taken) / pageBytes);
  if (cachePages < rowPages || cachePages >= sharedPages + places * (rowPages - sharedPages)) return undefined;
  return {
    ...setting,
    workload: {
      ...workload,
      cachePages,
      admittedPerSweep: (cachePages - sharedPages) / rowSweeps(workload, sharedPages),
    },
  };
}

function rowSweeps({ promptTokens, newTokens }: Workload, sharedPages: number): number {
  const positions = promptTokens + newTokens - 1;
  const pages = (tokens: number): number => Math.max(1, Math.ceil(tokens / PAGE_TOKENS) - sharedPages);
  return pageSweeps(pages(Math.min(promptTokens, positions)), pages(positions), Math.max(0, positions - promptTokens));
}
