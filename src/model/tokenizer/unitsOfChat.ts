import type { ChatMessage, TemplateInput } from '../Tokenizer.js';

/**
 * UTF-16 units of all that a chat template is given: of messages their texts, of what is plain data how it is written
 * as JSON.
 */
export function unitsOfChat(messages: readonly ChatMessage[], { tools, templateArgs }: TemplateInput = {}): number {
  let units = tools || templateArgs ? JSON.stringify([tools, templateArgs]).length : 0;
  for (const { role, content, ...more } of messages) {
    units += role.length + (content?.length ?? 0);
    for (const value of Object.values(more))
      units += typeof value === 'string' ? value.length : (JSON.stringify(value) ?? '').length;
  }
  return units;
}
