// The frame of the page: kinds on the left, a view on the right, and the slider of a recording.
import { useEffect, useState } from "preact/hooks";
import { discover, kinds } from "./api/discovery";
import { hasFeature, isSessionKnown, session, signOut } from "./api/session";
import { ErrorBox, Loading } from "./parts/states";
import { loadRecording, recording } from "./recording";
import { hrefOf, route } from "./route";
import { KindList } from "./views/kind_list";
import { NewObject } from "./views/new_object";
import { ObjectView } from "./views/object_view";
import { RecordingBar } from "./views/recording_bar";
import { ServerView } from "./views/server_view";
import { SignIn } from "./views/sign_in";
import { SimulationView } from "./views/simulation_view";
import { TableView } from "./views/table_view";
import { TimelineView } from "./views/timeline_view";

const DISCOVERY_MILLISECONDS = 15_000;

export function App() {
  const user = session.value;
  if (!isSessionKnown.value) return <Loading what="page" />;
  return user ? <Frame key={user.user} /> : <SignIn />;
}

function Frame() {
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    const load = () =>
      discover().then(
        () => setError(null),
        (problem: unknown) => setError(problem),
      );
    void load();
    if (hasFeature("recording")) loadRecording().catch((problem: unknown) => setError(problem));
    const timer = setInterval(load, DISCOVERY_MILLISECONDS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="frame">
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        Skip to the content
      </a>
      <nav class="side" aria-label="Views and kinds">
        <div class="brand">
          <img src="icon.svg" alt="" width="22" height="22" /> kapiserver
        </div>
        <ul class="views">
          <ViewLink id="timeline" title="Timeline" />
          {!hasFeature("recording") && <ViewLink id="server" title="Server" />}
          {hasFeature("simulation") && <ViewLink id="simulation" title="Simulation" />}
        </ul>
        {kinds.value.length > 0 && <KindList />}
        <div class="user">
          <span title={session.value?.user}>{session.value?.user}</span>
          <button type="button" class="quiet" onClick={() => void signOut()}>
            Sign out
          </button>
        </div>
      </nav>
      <main id="content" tabIndex={-1}>
        {hasFeature("recording") && <RecordingBar />}
        {error !== null && <ErrorBox error={error} title="The kinds cannot be read" />}
        {hasFeature("recording") && recording.value === null ? <Loading what="recording" /> : <CurrentView />}
      </main>
    </div>
  );
}

function ViewLink({ id, title }: { id: string; title: string }) {
  const isCurrent = route.value.parts[0] === id;
  return (
    <li>
      <a href={hrefOf([id])} aria-current={isCurrent ? "page" : undefined}>
        {title}
      </a>
    </li>
  );
}

function CurrentView() {
  const [view, group = "-", resource = "", namespace = "-", name = "", tab = ""] = route.value.parts;
  const groupName = group === "-" ? "" : group;
  switch (view) {
    case "kinds":
      return <TableView group={groupName} resource={resource} />;
    case "new":
      return <NewObject group={groupName} resource={resource} />;
    case "objects":
      return (
        <ObjectView
          group={groupName}
          resource={resource}
          namespace={namespace === "-" ? "" : namespace}
          name={name}
          tab={tab}
        />
      );
    case "timeline":
      return <TimelineView />;
    case "server":
      return <ServerView />;
    case "simulation":
      return <SimulationView />;
    default:
      return hasFeature("recording") ? <TimelineView /> : <TableView group="" resource="pods" />;
  }
}
