const { dirname, sep } = require('node:path');
const { fileURLToPath, pathToFileURL } = require('node:url');
const { compileFunction, SourceTextModule } = require('node:vm');
const { default: Runtime } = require('jest-runtime');

/**
 * @typedef {{ url: string; transformed: { code: string; sourceMapPath: string | null }; compiled?: Buffer }} Source
 *
 * @typedef {{
 *   paths: Map<string, string>;
 *   sources: Map<string, Source | undefined>;
 *   required: Map<string, string>;
 *   scripts: Map<string, Buffer | null | undefined>;
 * }} Known
 */

/**
 * The files that suites of this process have loaded, by the resolver that found them: where a watching jest sees files
 * change, it makes another.
 *
 * @type {WeakMap<object, Known>}
 */
const knownBy = new WeakMap();

/** How jest itself asks for the text of an ECMAScript module. */
const MODULE = {
  isInternalModule: false,
  supportsDynamicImport: true,
  supportsExportNamespaceFrom: true,
  supportsStaticESM: true,
  supportsTopLevelAwait: true,
};

/** Code that was compiled for another suite has lost the way to import more while it runs. */
const importsLate = (text) => /\bimport\s*\(/.test(text);

/**
 * Says which test is under way, for jest to know whose an error is that nobody awaited. Tests of a suite come one after
 * another, so a variable can; an `AsyncLocalStorage` would be told of each promise of every test, and an `await` take
 * three times as long.
 */
class OneAtATime {
  getStore() {
    return this.store;
  }

  async run(store, work) {
    const before = this.store;
    this.store = store;
    try {
      return await work();
    } finally {
      this.store = before;
    }
  }
}

/**
 * jest's runtime, which loads a suite's modules with what suites before it have found: where each import leads, the
 * file's text, its code. jest itself looks all of it up anew for each of some 5,000 imports of each suite. A module is
 * still made and evaluated for each suite, with globals of its own.
 */
module.exports = class QuickRuntime extends Runtime {
  constructor(...given) {
    super(...given);
    const resolver = given[2];
    const known = knownBy.get(resolver) ?? {
      paths: new Map(),
      sources: new Map(),
      required: new Map(),
      scripts: new Map(),
    };
    knownBy.set(resolver, known);
    this.#rememberRequired(known);
    const loader = this.esmLoader;
    const { loadEsmModule, resolveModule } = loader;
    loader.loadEsmModule = (path, suffix = '') =>
      (suffix === '' ? this.sourceModule(known.sources, path) : undefined) ?? loadEsmModule.call(loader, path, suffix);
    loader.resolveModule = async (specifier, from, context) => {
      const plain = /^(?![a-z]+:|@jest\/globals$)[^?#]*$/.test(specifier);
      if (!plain || this.testState.isTornDown() || !this.mockState.noMockCanApply(this.mockState.explicitEsmMock))
        return resolveModule.call(loader, specifier, from, context);
      const key = `${dirname(from)}\0${specifier}`;
      const path = known.paths.get(key) ?? (await this._resolution.resolveEsmAsync(from, specifier));
      known.paths.set(key, path);
      const module = this.sourceModule(known.sources, path);
      if (module) return module;
      return this.isModule(path) ? loader.loadEsmModule(path) : loader.loadCjsAsEsm(from, path, '', context);
    };
  }

  /**
   * The same for what is required: jest's own framework, which each suite has a copy of, and packages.
   *
   * @param {Known} known
   */
  #rememberRequired({ required, scripts }) {
    const { _resolution: resolution, executor } = this;
    const { resolveCjs } = resolution;
    resolution.resolveCjs = (from, name) => {
      if (!name) return from;
      const key = `${dirname(from)}\0${name}`;
      const path = required.get(key) ?? resolveCjs.call(resolution, from, name);
      required.set(key, path);
      return path;
    };
    const { compile } = executor;
    executor.compile = (text, filename) => {
      const parsingContext = this._environment.getVmContext();
      if (!scripts.has(filename) && (!filename.includes(`${sep}node_modules${sep}`) || importsLate(text)))
        scripts.set(filename, null);
      const cachedData = scripts.get(filename);
      if (parsingContext == null || cachedData === null) return compile.call(executor, text, filename);
      const options = { filename, parsingContext, cachedData, produceCachedData: cachedData === undefined };
      let script;
      try {
        script = compileFunction(text, executor.injectedModuleParameters, options);
      } catch {
        // jest has its own words for it, and may try the file as a module.
        return compile.call(executor, text, filename);
      }
      if (cachedData === undefined || script.cachedDataRejected) scripts.set(filename, script.cachedData);
      return script;
    };
  }

  requireInternalModule(from, name) {
    if (name === 'node:async_hooks') return { AsyncLocalStorage: OneAtATime };
    return super.requireInternalModule(from, name);
  }

  isModule(path) {
    return path.endsWith('.json') || this._resolution.isCoreModule(path) || this.unstable_shouldLoadAsEsm(path);
  }

  /**
   * The suite's module of a file, where it is one of JavaScript or TypeScript.
   *
   * @param {Map<string, Source | undefined>} sources
   */
  sourceModule(sources, path) {
    if (!sources.has(path)) sources.set(path, this.sourceOf(path));
    const source = sources.get(path);
    if (source === undefined) return undefined;
    const registry = this.registries.getActiveEsmRegistry();
    const there = registry.get(source.url);
    if (there !== undefined) return there;
    const { transforms, sourceMaps } = this.transformCache;
    transforms.set(path, source.transformed);
    if (source.transformed.sourceMapPath) sourceMaps.set(path, source.transformed.sourceMapPath);
    const module = this.compiledModule(source, path);
    registry.set(source.url, module);
    return module;
  }

  /** @returns {Source | undefined} */
  sourceOf(path) {
    if (!/\.m?[jt]s$/.test(path) || !this.unstable_shouldLoadAsEsm(path)) return undefined;
    if (this._resolution.isCoreModule(path) || !this.transformCache.canTransformSync(path)) return undefined;
    this.transformCache.transform(path, MODULE);
    const transformed = this.transformCache.getEntries().get(path);
    return { url: pathToFileURL(path).href, transformed, compiled: undefined };
  }

  /** @param {Source} source */
  compiledModule(source, path) {
    const { url, transformed, compiled } = source;
    const options = {
      context: this._environment.getVmContext(),
      identifier: path,
      importModuleDynamically: this.esmLoader.dynamicImport,
      initializeImportMeta: (meta) => {
        Object.assign(meta, {
          url,
          filename: path,
          dirname: dirname(path),
          resolve: (specifier, parent = url) => this.esmLoader.resolveForImportMeta(fileURLToPath(parent), specifier),
          main: path === this._testPath,
          jest: this.jestGlobals.jestObjectFor(path),
        });
      },
    };
    if (compiled !== undefined) {
      try {
        return new SourceTextModule(transformed.code, { ...options, cachedData: compiled });
      } catch (error) {
        // V8's flags have changed since, as some tests and our setup change them.
        if (error.code !== 'ERR_VM_MODULE_CACHED_DATA_REJECTED') throw error;
      }
    }
    const module = new SourceTextModule(transformed.code, options);
    if (!importsLate(transformed.code)) source.compiled = module.createCachedData();
    return module;
  }
};
