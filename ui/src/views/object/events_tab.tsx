// The Events about an object, the newest first.
import type { KubeObject } from "../../api/client";
import { findKind, pathOf } from "../../api/discovery";
import { useObjects } from "../../api/live_objects";
import { age, clockTime } from "../../model/ages";
import { Empty, ErrorBox, Loading } from "../../parts/states";
import { StatusText } from "../../parts/status_text";
import { at } from "../../recording";

export function EventsTab({ object }: { object: KubeObject }) {
  const kind = findKind("", "events");
  const { name, namespace, uid } = object.metadata;
  const query = { fieldSelector: `involvedObject.name=${name},involvedObject.uid=${uid}` };
  const path = kind ? pathOf(kind, namespace ?? "") : "";
  const { items, isLoading, error } = useObjects(path, query, at.value);
  if (error !== null) return <ErrorBox error={error} />;
  if (isLoading) return <Loading what="events" />;
  if (items.length === 0) return <Empty title="No events about this object." />;
  const events = [...items].sort((a, b) => timeOf(b) - timeOf(a) || revisionOf(b) - revisionOf(a));
  return (
    <table class="plain">
      <caption class="hidden">Events</caption>
      <thead>
        <tr>
          <th scope="col">Type</th>
          <th scope="col">Reason</th>
          <th scope="col">Message</th>
          <th scope="col">From</th>
          <th scope="col">Count</th>
          <th scope="col">Last seen</th>
        </tr>
      </thead>
      <tbody>
        {events.map((event) => (
          <tr key={event.metadata.uid}>
            <td>
              <StatusText text={event.type ?? ""} />
            </td>
            <td>{event.reason}</td>
            <td class="text">{event.message ?? event.note}</td>
            <td>{event.source?.component || event.reportingComponent}</td>
            <td>{event.series?.count ?? event.count ?? 1}</td>
            <td>{at.value === null ? age(new Date(timeOf(event)).toISOString()) : clockTime(timeOf(event))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function revisionOf(event: KubeObject): number {
  return Number(event.metadata.resourceVersion);
}

function timeOf(event: KubeObject): number {
  const time = event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime;
  return Date.parse(time ?? event.metadata.creationTimestamp);
}
