// Which tests of a program a configuration of test-native.mjs runs, where that is not all of them.

// Emulated, a test takes fifty times as long: of the kernels' those that are quick. nightly/arm64.mjs looks at what is
// shipped, which another compiler makes.
const emulated = [
  '*_scalar',
  '*_amx',
  '*attention_*',
  '*head_*',
  '*feed_forward_*',
  '*ARowAlone*_dotprod',
  'Attention.CommonShapes*',
  'Attention.SameBitsA*',
  'Attention.SameBitsI*',
  'Attention.SameBitsW*',
  'Epilogue.*',
  'MatmulJobs.*',
];
// Of the model's tests those where several queues work at once, with reads and writes on threads: the sanitizer does
// not see what io_uring does.
const threaded = [
  'Hidden*',
  'RuntimeRules*',
  'StreamingRules*',
  'SpillRules*',
  'Parts*',
  'Spill.One*',
  'Spill.Weights*',
  'Spill.Continuations*',
  'SpillFaults.A*',
  'SpillFaults.C*',
  'SpillFaults.H*',
  'SpillFaults.S*',
];
// Products of full width in plain C++ take minutes under a sanitizer, and touch no memory otherwise than the small ones
// do.
const wide = ['*head_scalar', '*feed_forward_up_scalar', '*feed_forward_down_scalar'];
// Every number of rows by itself. Of types that are multiplied alike one does: how a type is read does not depend on
// rows, and the other tests read them all.
const rowsOfLikeTypes = ['Q3_K', 'Q4_K', 'Q6_K', 'IQ4_XS', 'MXFP4'].map((type) => `*ARowAlone*/${type}_*`);
// Shapes of real models, which touch no memory otherwise than small ones do; and several products at once, of which the
// model's own tests are made.
const large = ['Attention.CommonShapes*', 'MatmulJobs.Several*'];
// The models' kernels have been looked at with the race detector in cuda_race_tests: what is new is the order of tasks.
const raced = [
  '*Cache/*llama',
  '*Architecture*/llama',
  '*Architecture*/mixtral',
  'GpuCacheRules.Pages*',
  '*GpuFetching.Whatever*/F16',
  'GpuFetchingRules.A*',
  'GpuFetchingRules.W*',
];
// Under a sanitizer some of each.
const sanitized = [
  '*Architecture*OnHalves*',
  '*GpuCache/*llama',
  '*GpuCache/*mixtral',
  'GpuCacheRules.P*',
  'GpuCacheRules.S*',
  '*GpuFetching.Pages*/Q4Windowed',
  'GpuFetchingRules.A*',
  'GpuFetchingRules.W*',
  '*GpuPrompts*/F16',
  '*GpuPrompts*/Q4Windowed',
  '*GpuSharing*Pages*/Q4Windowed',
  'GpuSharingRules.*',
  'GpuRules*',
  'GpuAhead.AD*',
  'GpuAhead.E*',
  'GpuAhead.L*',
  'GpuAhead.W*',
  'GpuProducts.A*',
  'GpuProducts.T*',
  'GpuProfile.*',
  'GpuWeights.Of*',
  'GpuWeights.T*',
];
// Models on an emulated device: every kind of model is computed there (GpuArchitecture), and with its cache on both
// sides some that differ in what they keep; of caches the plain one, the smallest, and those with a window or a choice.
const moreOnDevice = [
  ...[
    'glm4_moe',
    'qwen2_moe*',
    'olmo2*',
    'nemotron',
    'cohere2',
    'gemma2',
    'smollm3*',
    'falcon_one_norm',
    'opt',
    'opt_350m',
  ]
    .concat(['llama_biases', 'mistral_window', 'qwen3_head_norms', 'phi3_partial_rotary_scaled', 'gpt_neox_two_norms'])
    .concat(['alibi', 'granite_scales', 'hunyuan_norms_after_rotation'])
    .map((kind) => `*GpuCache.*/${kind}`),
  // Of pages that come, and attention that is shared, the engine's own tests on that device have all tiers (test/gpu).
  '*GpuSharedAttention.*',
  'GpuSharedAttentionRules.A*',
  '*GpuFetching.Whatever*',
  '*GpuSharing.*/Sparse',
  '*GpuSharing.*/Halves',
  '*GpuSharing.*/Q8',
  '*GpuSharing.*/Windowed',
  '*GpuSharing.KeysInCommon*/Floats',
  '*GpuFetching.*/F16',
  '*GpuFetching.*/Q8',
  '*GpuFetching.*/F32',
  '*GpuFetching.*/Q4Windowed',
  '*GpuPrompts.*/F16',
  'GpuCompany.*Mixture',
];
// Emulated, what takes half a minute and knows nothing of the processor; and every number of rows by itself and of
// threads, by day of some types, since the other tests have all types multiply few rows and many.
const slowEmulated = [
  'Attention.SinksTakeTheirShareOfEveryKindOfCache',
  ...['F32', 'BF16', 'Q4_1', 'Q5_0', 'Q5_1', 'Q2_K', 'Q3_K', 'Q5_K', 'Q6_K', 'IQ4_NL', 'IQ4_XS', 'MXFP4', 'Q4_G64'].map(
    (type) => `*ThreadsDoNotChangeBits/${type}_*`,
  ),
  ...['F16', 'F32', 'IQ4_NL', 'Q4_1', 'Q4_G64', 'Q5_0', 'Q5_1', 'Q8_0', 'Q5_K'].map((type) => `*ARowAlone*/${type}_*`),
  '*ARowAlone*/Q8_R_*',
];
// Of each kind of model: its arithmetic is that of Architecture, and what moves is that of Spill, which the sanitizer sees.
const kindsThatSpill = ['*SpillArchitecture.*'];

/**
 * By configuration and program: `only` these tests run, all `but` these; what `byNight` names runs with `--whole` alone.
 */
const selections = {
  plain: { gpu_model_race_tests: { only: raced }, gpu_model_tests: { byNight: moreOnDevice } },
  asan: {
    gpu_model_tests: { only: sanitized },
    kernel_tests: { but: wide, byNight: [...large, ...rowsOfLikeTypes] },
    model_tests: { byNight: kindsThatSpill },
  },
  tsan: { model_tests: { only: threaded } },
  arm64: { kernel_tests: { but: emulated, byNight: [...rowsOfLikeTypes, ...slowEmulated] } },
};

/** @returns the `--gtest_filter` of a program; none where it runs all its tests */
export function filterOf(configuration, program, whole) {
  const { only = [], but = [], byNight = [] } = selections[configuration]?.[program] ?? {};
  const left = whole ? but : [...but, ...byNight];
  const filter = [only.join(':'), left.join(':')].filter((part, at) => at === 0 || part !== '').join('-');
  return filter === '' ? [] : [`--gtest_filter=${filter}`];
}
