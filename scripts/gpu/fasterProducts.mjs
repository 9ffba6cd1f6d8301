// Which products a GPU is faster by: the engine's own kernels', or cuBLASLt's. Plans know the former alone, so that a
// run with the latter would be measured against too little. Pure.

/**
 * @param hardware a profile of this machine
 * @param weights as in the profile's `matmul`
 * @returns `gpuProducts` for Engine.open, and the profile in which products of many tokens are as fast as the faster of
 * both: what a run is measured against. (Tokens that decode
 *   are multiplied by the own kernels in any case, of however many rows: for them it promises too much, if anything.)
 */
export function fasterProducts(hardware, weights) {
  const { gpu } = hardware;
  const library = (gpu?.matmulCublasLt ?? []).filter(
    (point) => point.weights === weights && point.inputs === undefined,
  );
  let faster = false;
  const matmul = gpu?.matmul.map((point) => {
    const other = library.find(({ tokens }) => tokens === point.tokens);
    if (
      point.weights !== weights ||
      point.inputs !== undefined ||
      other === undefined ||
      other.flopsPerSecond <= point.flopsPerSecond
    )
      return point;
    faster = true;
    return { ...point, flopsPerSecond: other.flopsPerSecond };
  });
  return faster
    ? { gpuProducts: 'auto', hardware: { ...hardware, gpu: { ...gpu, matmul } } }
    : { gpuProducts: 'own', hardware };
}
