export const JOB_TASKS = ['generate', 'classify', 'score', 'embed'] as const;

/** What a job does with its rows. */
export type JobTaskName = (typeof JOB_TASKS)[number];
