"""What an exploration does to an operator: points, injections and plans, and which plans to run."""
