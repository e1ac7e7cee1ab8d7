// Who owns which field.
import type { KubeObject } from "../../api/client";
import { ownedFields, type Owner } from "../../model/managed_fields";
import { Empty } from "../../parts/states";

const HUES = 8;

export function FieldsTab({ object }: { object: KubeObject }) {
  const entries = object.metadata.managedFields ?? [];
  if (entries.length === 0) return <Empty title="Nobody owns fields of this object." />;
  const managers = [...new Set(entries.map((entry) => entry.manager))];
  const hue = (owner: Owner) => `chip hue-${managers.indexOf(owner.manager) % HUES}`;
  return (
    <div class="fields">
      <table>
        <caption class="hidden">Fields and their owners</caption>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Value</th>
            <th scope="col">Owners</th>
          </tr>
        </thead>
        <tbody>
          {ownedFields(object).map((field) => (
            <tr key={field.path.join("/")} class={field.isLeaf ? "" : "branch"}>
              <th scope="row" style={{ paddingLeft: `${field.path.length * 16}px` }}>
                <code>{field.path.at(-1)}</code>
              </th>
              <td>
                <code>{field.value}</code>
              </td>
              <td>
                {field.isLeaf &&
                  field.owners.map((owner) => (
                    <span
                      key={`${owner.manager} ${owner.operation} ${owner.subresource}`}
                      class={hue(owner)}
                      title={`${owner.operation}${owner.subresource && ` of ${owner.subresource}`}, ${owner.time}`}
                    >
                      {owner.manager}
                      {owner.subresource && ` (${owner.subresource})`}
                    </span>
                  ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
