/**
 * Bounds on what a header may hold. They lie well above any model that exists (the largest have some 150,000 tensors,
 * 260,000 tokens and a tokenizer of 35 MB as text) and keep a hostile file from making the process allocate without
 * end.
 */
export const HEADER_LIMITS = {
  /** Tensors of a model, all its files together. */
  tensors: 2 ** 20,
  /** Bytes of a tensor's name or a metadata key. */
  nameBytes: 4096,
  /** Dimensions of a safetensors tensor; GGUF has at most 4. */
  dimensions: 8,
  /** Key-value pairs of a GGUF file. */
  metadataPairs: 65_536,
  /** Arrays inside arrays inside … of a metadata value. */
  arrayDepth: 4,
  /** Bytes of one string in GGUF metadata. */
  stringBytes: 64 * 2 ** 20,
  /** Bytes of the header of a safetensors file; the format's own bound. */
  safetensorsHeaderBytes: 100_000_000,
  /** Bytes of tokenizer.json, tokenizer_config.json and the index of weights. */
  tokenizerJsonBytes: 64 * 2 ** 20,
  /** Bytes of config.json, generation_config.json, or a file with a chat template. */
  configJsonBytes: 4 * 2 ** 20,
  /** Bytes that the values of one JSON file may take in memory, roughly. */
  jsonMemoryBytes: 192 * 2 ** 20,
  /**
   * Bytes that the values of one GGUF or safetensors header may take in memory, roughly; and 1 MiB and 16 times the
   * file at most.
   */
  memoryBytes: 512 * 2 ** 20,
} as const;

/** Bounds on what a tokenizer is made of: vocabulary, patterns, templates. A unit is one of UTF-16. */
export const TOKENIZER_LIMITS = {
  /** The largest token id. */
  tokenId: 2 ** 22 - 1,
  /** Units of one token; the longest known have some hundreds. */
  tokenUnits: 65_536,
  /**
   * Units of all added tokens together, as they are and as they are normalized; the most known, some 65,000 tokens of
   * speech, have under a million.
   */
  addedTokenUnits: 2 ** 22,
  /** Units of all pieces of a unigram vocabulary together; the largest known have some two million. */
  unigramUnits: 2 ** 23,
  /** Merges of a BPE; the largest known have 515,000. */
  merges: 2 ** 21,
  /** Units of one pattern, literal or regular expression. */
  patternUnits: 10_000,
  /** Units of what stands in for a match, or is put before a text or a character. */
  replacementUnits: 64,
  /** Bytes of what stands in for a character in a precompiled map; the most known are 33. */
  mappedBytes: 256,
  /** Steps of a normalizer, a pre-tokenizer or a decoder; real ones have up to eight. */
  steps: 64,
  /** Sequences inside sequences inside … of such steps. */
  nesting: 16,
  /** Tokens that a post-processor puts round a text. */
  surroundingTokens: 64,
  /** Units of a chat template; the largest known have some ten thousands. */
  templateUnits: 2 ** 18,
} as const;

/**
 * Bounds on what a row, and what a tokenizer or template makes of it, may take. Who exceeds one becomes a row with an
 * error.
 */
export const ROW_LIMITS = {
  /** Bytes of a line of input. */
  lineBytes: 8 * 2 ** 20,
  /** Columns of a table, and values of one of its rows; a file with more is refused (exit 2). */
  tableColumns: 65_536,
  /** Values in a row's messages, tools, `toolChoice` and `templateArgs` together: members of lists and objects. */
  conversationValues: 16_384,
  /** Stop strings of a row. */
  stopStrings: 1_024,
  /** Units of a row's stop strings together. */
  stopUnits: 16_384,
  /** Bytes that the values of a row take in memory, roughly: some 100,000 objects, 300,000 fractions, 1 Mi tokens. */
  rowBytes: 16 * 2 ** 20,
  /** Bytes of a line of results, and those that its values take in memory, roughly. */
  resultBytes: 24 * 2 ** 20,
  /** Tokens and alternatives in the log-probabilities of a row, those of all its tokens together. */
  logprobs: 131_072,
  /** Bytes of a text that is scored in windows. */
  scoredBytes: 64 * 2 ** 20,
  /** Units of a row's text beside those for the model's context; a longer one is cut (`truncate`), or not encoded. */
  textUnits: 2 ** 18,
  /** Units of a row's text more for each token that the model's context holds. */
  textUnitsPerContextToken: 64,
  /**
   * Steps that a model's normalizer, pre-tokenizer and decoder may take for a text, before those for its units: a step
   * is a unit that goes through one of them, or a move of a pattern that is matched by counted steps.
   */
  steps: 2 ** 24,
  /** Steps more for each unit of the text. Known tokenizers take up to ten. */
  stepsPerUnit: 512,
  /**
   * Units of combining marks in a row, not in canonical order, in a text that is normalized: the time for them grows
   * with their number squared.
   */
  marks: 1_024,
  /**
   * Times that a step may make a text longer, and the normalizer a row as a whole. The most of any known, NFKD, is 18.
   */
  growth: 64,
  /** Units that a step may add to a text, beyond 4 times its length. */
  growthUnits: 2 ** 22,
  /**
   * Units of the text of an answer, before those for its tokens; at each step of the decoder, and 8 times as many at
   * all steps together.
   */
  answerUnits: 2 ** 20,
  /** Units of the text of an answer for each of its tokens. */
  answerUnitsPerToken: 256,
  /** Entries of a row's `logitBias`, `stopTokenIds` and `badWords`, each. */
  adjustments: 4_096,
  /** Units of one of a row's `badWords`. */
  badWordUnits: 256,
  /** Steps of a chat template, before those for its messages. */
  templateSteps: 500_000,
  /**
   * Steps of a chat template for each message; the largest real ones take some hundreds, gpt-oss's six more for each
   * call and later message.
   */
  templateStepsPerMessage: 20_000,
  /**
   * Steps of a chat template in all, however many messages there are: some two seconds. gpt-oss's, which looks for each
   * call at all later messages, stays below with as many calls as `conversationValues` allows.
   */
  templateStepsInAll: 12_000_000,
  /** Units of text that a chat template goes through in all. */
  templateScannedUnits: 2 ** 25,
  /** Units of text, and members of lists, that a chat template makes in all. */
  templateMadeUnits: 2 ** 26,
  /** Units of a text, or members of a list, that a template makes, beyond 8 times the messages' own. */
  templateTextUnits: 131_072,
  /** Numbers of a template's `range`. */
  templateRange: 100_000,
} as const;

/**
 * Bounds on what a Parquet file of rows may hold, far above what writers make, so that one that lies cannot make the
 * process allocate or work without end.
 */
export const PARQUET_LIMITS = {
  /** Bytes of the footer. */
  footerBytes: 32 * 2 ** 20,
  /** Bytes of the header of a page. */
  pageHeaderBytes: 2 ** 20,
  /** Values that a footer or the header of a page is made of. */
  headerValues: 2 ** 22,
  /** Structures inside structures of a header, and columns inside columns. */
  depth: 64,
  /** Nodes of the schema: columns, and what they are made of. */
  schemaElements: 2 ** 16,
  /** Bytes of one page, decompressed. */
  pageBytes: 256 * 2 ** 20,
  /** Values of one page. */
  pageValues: 2 ** 24,
  /** Values of one row in the lists of one column; one of more is a row with an error. */
  listValues: 2 ** 18,
  /** Bytes of the values of one row, 16 more each, in the columns that are read; one of more is a row with an error. */
  rowBytes: 64 * 2 ** 20,
  /** Bytes of the pages that are held of all columns; beyond them pages are read again for the rows that follow. */
  heldBytes: 256 * 2 ** 20,
  /** Bytes of the rows that are made of a file at a time, one row aside. */
  batchBytes: 16 * 2 ** 20,
  /** Bytes of one value of fixed length. */
  fixedBytes: 2 ** 16,
} as const;
