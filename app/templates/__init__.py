"""HTML from Jinja2 templates: the files of this folder, every value escaped."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from app.formatting import number, shortened

__all__ = ["render"]


def render(name: str, **values: object) -> str:
    """HTML of a template.

    Jinja2 escapes every value, so that text of the user shows as it is and runs nothing.

    Args:
        name: path of the template in this folder.
        **values: variables of the template.

    Raises:
        jinja2.TemplateNotFound: no file of that name is in the folder.
        jinja2.UndefinedError: the template uses a variable that is not among the values.
    """
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("app"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"number": number, "shortened": shortened}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment
