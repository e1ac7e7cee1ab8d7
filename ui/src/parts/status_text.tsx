// Text of a cell; words that tell a state have a color, too.
const GOOD = /^(Running|Ready|Bound|Active|Available|Complete|Completed|Succeeded|True|Normal|Established)$/;
const BAD =
  /^(Failed|Error|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|OOMKilled|Evicted|Lost|NotReady.*|Unknown|Warning|Unschedulable)$/;
const WAITING = /^(Pending|ContainerCreating|Terminating|PodInitializing|Init:.*|Released|Progressing|Suspended)$/;

export function StatusText({ text }: { text: string }) {
  const tone = GOOD.test(text) ? "good" : BAD.test(text) ? "bad" : WAITING.test(text) ? "waiting" : "";
  return <span class={tone && `status ${tone}`}>{text}</span>;
}
