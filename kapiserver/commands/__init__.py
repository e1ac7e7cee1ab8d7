"""The subcommands of `kapiserver` beside `serve`, one module each; `cli` lists them."""
