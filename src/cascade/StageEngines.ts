import { checkOpened, type CascadeEngine, type CascadeStage, type OpenedCascadeEngine } from './CascadeStage.js';

/** The engines of a cascade's models, of which those that are opened for it are open one at a time. */
export class StageEngines {
  private current: { readonly stage: CascadeStage; readonly engine: OpenedCascadeEngine } | undefined;

  /** The engine of a model; one that was opened before is closed first, so that its memory is there for it. */
  async of(stage: CascadeStage): Promise<CascadeEngine> {
    const { name, engine, open, resultIdentity } = stage;
    if (engine) return engine;
    if (this.current?.stage === stage) return this.current.engine;
    await this.close();
    const opened = await open?.();
    checkOpened(name, opened, resultIdentity);
    this.current = { stage, engine: opened as OpenedCascadeEngine };
    return this.current.engine;
  }

  async close(): Promise<void> {
    const { current } = this;
    this.current = undefined;
    await current?.engine[Symbol.asyncDispose]();
  }
}
