"""Streamlit components that more than one page shows."""
