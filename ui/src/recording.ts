// The recording of a failed test, if the server serves one, and the revision of it that is shown.
import { computed, signal } from "@preact/signals";
import { request } from "./api/client";

export interface RecordedRequest {
  number: number;
  time: string;
  user: string;
  user_agent: string;
  verb: string;
  uri: string;
  resource: string;
  namespace: string;
  name: string;
  status: number | null;
}

export interface Recording {
  test: string;
  /** Revisions and their times in seconds since the epoch, in their order. */
  writes: { revision: number; time: number }[];
  requests: RecordedRequest[];
}

export const recording = signal<Recording | null>(null);
/** The index of the write after which the objects are shown. */
export const step = signal(0);
/** The revision to show; null follows the newest. */
export const at = computed(() => recording.value?.writes[step.value]?.revision ?? null);

export async function loadRecording(): Promise<void> {
  const answer = await request<Recording>("/kapiserver/recording");
  recording.value = answer;
  step.value = Math.max(0, answer.writes.length - 1);
}

export function timeOfRevision(revision: number): number | undefined {
  const time = recording.value?.writes.find((write) => write.revision === revision)?.time;
  return time === undefined ? undefined : time * 1000;
}
