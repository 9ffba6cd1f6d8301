// `spillway/serve`: models behind an HTTP API that is OpenAI's, with batches that survive.
import '../requireNode.js';

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
