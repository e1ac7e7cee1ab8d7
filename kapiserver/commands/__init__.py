"""The subcommands of `kapiserver` besides `serve`, one module each; `cli` lists them."""
