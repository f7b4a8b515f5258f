"""The Streamlit front end: thin, with no mathematics and no file formats of its own."""
