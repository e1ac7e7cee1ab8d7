// An ordinary module of Pepr, the policy engine of the npm package `pepr`: one mutation and one
// validation of ConfigMaps. Knows nothing of this project.

const { Capability, PeprModule, a } = require("pepr");

const names = new Capability({ name: "colours", description: "Colours of ConfigMaps." });

names
  .When(a.ConfigMap)
  .IsCreatedOrUpdated()
  .WithLabel("pepr", "yes")
  .Mutate(request => request.SetAnnotation("colour", request.Raw.data?.colour ?? "none"));

names
  .When(a.ConfigMap)
  .IsCreatedOrUpdated()
  .WithLabel("pepr", "yes")
  .Validate(request => {
    if (request.Raw.data?.colour === "grey") {
      return request.Deny("grey is no colour", 418);
    }
    return request.Approve(["a fine colour"]);
  });

const settings = { uuid: "colours", onError: "reject", alwaysIgnore: { namespaces: [] } };
const options = { deferStart: true };
new PeprModule({ description: "", pepr: settings }, [names], options).start(
  Number(process.env.PEPR_PORT),
);
