// The slider over the time of a recording.
import { clockTime } from "../model/ages";
import { recording, step } from "../recording";

export function RecordingBar() {
  const recorded = recording.value;
  if (!recorded) return null;
  const last = Math.max(recorded.writes.length - 1, 0);
  const write = recorded.writes[step.value];
  const move = (to: number) => {
    step.value = Math.min(Math.max(to, 0), last);
  };
  return (
    <div class="recording" role="group" aria-label="Time of the recording">
      <strong title={recorded.test}>{recorded.test || "Recording"}</strong>
      <button type="button" aria-label="One write back" disabled={step.value === 0} onClick={() => move(step.value - 1)}>
        ‹
      </button>
      <input
        type="range"
        min={0}
        max={last}
        value={step.value}
        aria-label="Write"
        aria-valuetext={write ? `revision ${write.revision} at ${clockTime(write.time * 1000)}` : "empty"}
        onInput={(event) => move(Number(event.currentTarget.value))}
      />
      <button type="button" aria-label="One write on" disabled={step.value === last} onClick={() => move(step.value + 1)}>
        ›
      </button>
      {write && (
        <output>
          {clockTime(write.time * 1000)} <span class="hint">revision {write.revision}</span>
        </output>
      )}
    </div>
  );
}
