"""Figures of more than one page: arrays to plotly, ECharts and canvas. No Streamlit."""
