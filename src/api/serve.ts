// `spillway/serve`: models with an HTTP API that is OpenAI's, with batches that survive.
import '../requireNode.js';

export { JobWatch, type JobWatchOptions, type WatchedEngine, type WatchedResult } from '../serve/watch/JobWatch.js';
export type { Fact } from '../serve/watch/WatchSource.js';
export { serve, type SpillwayServer } from '../serve/serve.js';
export {
  type CallOptions,
  SERVE_LIMITS,
  type ServedEngine,
  type ServedEvent,
  type ServedModel,
  type ServedResults,
  type ServeLimit,
  type ServeLimits,
  type ServeOptions,
} from '../serve/ServeOptions.js';
