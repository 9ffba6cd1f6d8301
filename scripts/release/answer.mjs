// What a new user's first program does, with a model given by its path: prints the tokens that one row is answered with.
import { Engine } from 'spillway';

const engine = await Engine.open({ model: process.argv[2] });
for await (const { tokens, error } of engine.generate([{ tokens: [1, 5, 7] }], { maxNewTokens: 8, ignoreEos: true }))
  console.log(error ? error.message : tokens.join(' '));
await engine.close();
