"""Write the declarations of the models: ``python -m lvmcore.models``."""

from __future__ import annotations

from lvmcore.models.declarations import DECLARATIONS_FILE, declarations_json

if __name__ == "__main__":
    DECLARATIONS_FILE.write_text(declarations_json(), encoding="utf-8")
    print(f"Wrote {DECLARATIONS_FILE.name}")
